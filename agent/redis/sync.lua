-- Counters that hosts keep themselves: each tells what it counted since it last did, and
-- hears the counter of all. An exchange that was carried out is kept longer when it comes
-- again, and changes nothing else; nor does one that comes after a later one by the same
-- limit. KEYS: a counter each; ARGV and the reply: script.h.
local held = records()
local host = string.sub(ARGV[1], 1, 8)
local ends = now + struct.unpack('>I4', ARGV[1], 9) * 1000
local texts = redis.call('MGET', unpack(KEYS))
local reply = {now}

-- Never refused: it was spent. Answers whether it was charged now.
local function charge(counter, what, seq, delta)
    local records = counter.records
    local at = held.find_last(records, host, what)
    local ahead = at and (seq - struct.unpack('>I4', records, at + 8)) % 2 ^ 32 or 1
    if ahead >= 2 ^ 31 then
        return false
    elseif ahead > 0 then
        local change = {amount = 0, truth = delta}
        counter.state = counter.kind.settle(counter.limit, counter.state, now, change)
            or counter.state
    end
    records = at and held.drop(records, at) or records
    if held.has_room(records) then
        records = held.add(records, host .. struct.pack('>I4', seq), what, ends)
    end
    counter.records, counter.is_changed = records, true
    return ahead > 0
end

local at = 13
for i = 1, #KEYS do
    local limit, kind, _, order_at = read_limit(at)
    local seq, delta, next_at = struct.unpack('>I4I4', ARGV[1], order_at)
    local counter = counter_open(KEYS[i], texts[i], limit, kind)
    local what = '\0\0\0\0' .. string.sub(ARGV[1], at + 2, at + 9) -- requests and size
    local is_charged = delta > 0 and charge(counter, what, seq, delta)
    local answer = kind.take(limit, counter.state, now, 0)
    answer.is_allowed = answer.remaining > 0
    counter_close(counter, answer)
    local n, state = 4 * (i - 1) + 1, counter.state
    reply[n + 1] = (is_charged and CHANGED or 0) + counter.flags
    reply[n + 2] = state.prev or state.level or state.count
    reply[n + 3] = state.curr or state.at or state.window
    reply[n + 4] = state.prev and state.window or 0
    at = next_at
end
return reply
