-- Charges that are put right, each for itself: limit_settle. KEYS: a counter each; ARGV and
-- the reply: script.h.
local texts = redis.call('MGET', unpack(KEYS))
local reply = {}

local at = 1
for i = 1, #KEYS do
    local counter, _, next_at = counter_open(texts[i], at)
    local correction = {}
    correction.place, correction.amount, correction.truth, at =
        struct.unpack('>I8I4I4', ARGV[1], next_at)
    local settled = counter[KIND].settle(counter, correction)
    counter[TEXT] = settled or counter[TEXT]
    local flags = counter_close(KEYS[i], texts[i], counter, counter[KIND].take(counter, 0))
    reply[i] = (settled and CHANGED or 0) + flags
end
return reply
