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
    local records, kind = counter[RECORDS] or '', counter[KIND]
    local at = held.find_last(records, host, what)
    local ahead = at and (seq - struct.unpack('>I4', records, at + 8)) % 2 ^ 32 or 1
    if ahead >= 2 ^ 31 then
        return false
    elseif ahead > 0 then
        counter[TEXT] = kind.settle(counter, {amount = 0, truth = delta}) or counter[TEXT]
            or struct.pack(kind.format, kind.letter, 0, 0, 0)
    end
    records = at and held.drop(records, at) or records
    if held.has_room(records) then
        records = held.add(records, host .. struct.pack('>I4', seq), what, ends)
    end
    counter[RECORDS] = records
    return ahead > 0
end

local at = 13
for i = 1, #KEYS do
    local counter, _, order_at = counter_open(texts[i], at)
    local seq, delta, next_at = struct.unpack('>I4I4', ARGV[1], order_at)
    local what = '\0\0\0\0' .. string.sub(ARGV[1], at + 2, at + 9) -- requests and size
    local is_charged = delta > 0 and charge(counter, what, seq, delta)
    local answer = counter[KIND].take(counter, 0)
    answer[IS_ALLOWED] = answer[REMAINING] > 0
    local flags = counter_close(KEYS[i], texts[i], counter, answer)
    local n, a, b, c, ends_at = 4 * (i - 1) + 1, 0, 0, 0, nil
    if counter[TEXT] then
        _, a, b, c, ends_at = struct.unpack(counter[KIND].format, counter[TEXT])
    end
    reply[n + 1] = (is_charged and CHANGED or 0) + flags
    reply[n + 2] = a
    reply[n + 3] = b
    reply[n + 4] = ends_at and c or 0 -- where there is no third number, c is the end
    at = next_at
end
return reply
