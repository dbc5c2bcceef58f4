-- Counters that hosts keep themselves: each tells what it counted since it last did, and
-- hears the counter of all. An exchange that was carried out changes nothing when it comes
-- again, nor does one that comes after a later one. KEYS: a counter each; ARGV and the
-- reply: script.h.
local held = records()
local host = string.sub(ARGV[1], 1, 8)
local ends = now + struct.unpack('>I4', ARGV[1], 9) * 1000
local texts = redis.call('MGET', unpack(KEYS))
local reply = {now}

-- Answers the records without the host's last exchange; nil: that one is no earlier.
local function forget_last(counter, seq)
    local at = held.find(counter.records, host, false)
    if not at then
        return counter.records
    end
    local ahead = (seq - struct.unpack('>I4', counter.records, at + 8)) % 2 ^ 32
    if ahead > 0 and ahead < 2 ^ 31 then
        return held.drop(counter.records, at)
    end
end

-- Never refused: it was spent. Answers whether it was charged now.
local function charge(counter, seq, delta)
    local others = forget_last(counter, seq)
    if not others then
        return false
    end
    local change = {amount = 0, truth = delta}
    counter.state = counter.kind.settle(counter.limit, counter.state, now, change)
        or counter.state
    counter.records = others
    if held.has_room(others) then
        local id = host .. struct.pack('>I4', seq)
        counter.records = held.add(others, id, 0, 0, ends)
    end
    counter.is_changed = true
    return true
end

local at = 13
for i = 1, #KEYS do
    local limit, kind, _, order_at = read_limit(at)
    local seq, delta, next_at = struct.unpack('>I4I4', ARGV[1], order_at)
    local counter = counter_open(KEYS[i], texts[i], limit, kind)
    local is_charged = delta > 0 and charge(counter, seq, delta)
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
