-- The charges of one request, all or nothing: what store.h says of `take`, and how the local
-- store does it. KEYS: a counter each; ARGV and the reply: script.h.
local LENIENT = 1
local PEEK = 1

local is_peek = struct.unpack('B', ARGV[1]) == PEEK
local texts = redis.call('MGET', unpack(KEYS))
local counters = {}
local is_allowed = true
local is_broken -- by ties of which a charge is over its limit

local at = 2
for i = 1, #KEYS do
    local counter, flags, charge_at = counter_open(texts[i], at)
    local tie, cost, next_at = struct.unpack('>BI4', ARGV[1], charge_at)
    local answer = counter[KIND].take(counter, cost)
    if not answer[IS_ALLOWED] then
        is_allowed = is_allowed and flags == LENIENT
        is_broken = is_broken or {}
        is_broken[tie] = tie > 0
    end
    counter[TIE], counter[ANSWER] = tie, answer
    counters[i] = counter
    at = next_at
end

-- Of one charge all fits: to grow a table costs more than all else here.
local reply, n = {is_allowed and 1 or 0, 0, 0, 0, 0, 0, 0, 0}, 1
for i = 1, #KEYS do
    local counter, flags = counters[i], 0
    local answer = counter[ANSWER]
    local held = is_peek and counter[KIND].take(counter, 0)
    if is_broken and answer[CHARGED] and (not is_allowed or is_broken[counter[TIE]]) then
        -- it is not made: answered as the counter stands without it
        answer = counter[KIND].take(counter, 0)
    end
    if answer[CHARGED] and not is_peek then
        counter[TEXT] = answer[CHARGED]
        flags = CHANGED
    end
    if not is_peek or counter[HAS_ENDED] then
        flags = flags + counter_close(KEYS[i], texts[i], counter, held or answer)
    end
    reply[n + 1] = flags + (answer[IS_ALLOWED] and ALLOWED or 0)
    reply[n + 2] = answer[REMAINING]
    reply[n + 3] = answer[RESET_US]
    reply[n + 4] = answer[RETRY_US]
    reply[n + 5] = answer[WINDOW_END_US]
    reply[n + 6] = answer[DELAY_US]
    reply[n + 7] = is_peek and 0 or answer[PLACE]
    n = n + 7
    if held then
        reply[n + 1] = held[REMAINING]
        reply[n + 2] = held[RESET_US]
        reply[n + 3] = held[WINDOW_END_US]
        n = n + 3
    end
end
return reply
