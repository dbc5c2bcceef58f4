-- Charges that are put right, each for itself: limit_settle. KEYS: a counter each; ARGV and
-- the reply: script.h.
local texts = redis.call('MGET', unpack(KEYS))
local reply = {}

local at = 1
for i = 1, #KEYS do
    local limit, kind, _, next_at = read_limit(at)
    local correction = {}
    correction.place, correction.amount, correction.truth, at =
        struct.unpack('>I8I4I4', ARGV[1], next_at)
    local counter = counter_open(KEYS[i], texts[i], limit, kind)
    local settled = kind.settle(limit, counter.state, now, correction)
    if settled then
        counter.state, counter.is_changed = settled, true
    end
    counter_close(counter, kind.take(limit, counter.state, now, 0))
    reply[i] = (settled and CHANGED or 0) + counter.flags
end
return reply
