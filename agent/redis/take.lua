-- The charges of one request, all or nothing: what store.h says of `take`, and how the local
-- store does it. KEYS: a counter each; ARGV and the reply: script.h.
local LENIENT = 1
local PEEK = 1

local is_peek = struct.unpack('B', ARGV[1]) == PEEK
local texts = redis.call('MGET', unpack(KEYS))
local charges = {}
local is_allowed = true
local is_broken = {} -- ties of which a charge is over its limit

local at = 2
for i = 1, #KEYS do
    local limit, kind, flags, cost_at = read_limit(at)
    local charge = counter_open(KEYS[i], texts[i], limit, kind)
    charge.tie, charge.cost, at = struct.unpack('>BI4', ARGV[1], cost_at)
    charge.answer = kind.take(limit, charge.state, now, charge.cost)
    if not charge.answer.is_allowed then
        is_allowed = is_allowed and flags == LENIENT
        is_broken[charge.tie] = true
    end
    charges[i] = charge
end
is_broken[0] = nil

-- Of one charge all fits: to grow a table costs more than all else here.
local reply = {is_allowed and 1 or 0, 0, 0, 0, 0, 0, 0, 0}
local n = 1
for i = 1, #charges do
    local charge = charges[i]
    local answer = charge.answer
    local held = is_peek and charge.kind.take(charge.limit, charge.state, now, 0)
    if answer.is_allowed and (not is_allowed or is_broken[charge.tie]) then
        -- it is not made: answered as the counter stands without it
        answer = charge.kind.take(charge.limit, charge.state, now, 0)
    end
    local is_charged = answer.state and not is_peek
    if is_charged then
        charge.state, charge.is_changed = answer.state, true
    end
    if not is_peek then
        counter_close(charge, answer)
    elseif charge.has_ended then
        counter_close(charge, held)
    end
    reply[n + 1] = (answer.is_allowed and 1 or 0) + (is_charged and CHANGED or 0) + charge.flags
    reply[n + 2] = answer.remaining
    reply[n + 3] = answer.reset_us
    reply[n + 4] = answer.retry_us
    reply[n + 5] = answer.window_end_us
    reply[n + 6] = answer.delay_us
    reply[n + 7] = is_charged and answer.place or 0
    if is_peek then
        reply[n + 8] = held.remaining
        reply[n + 9] = held.reset_us
        reply[n + 10] = held.window_end_us
    end
    n = n + (is_peek and 10 or 7)
end
return reply
