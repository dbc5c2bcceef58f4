-- Leases: what a host may spend of a counter by itself. It is charged at once; what the host
-- reports to be unspent is given back, and what it does not report is taken back whole when
-- the lease ends. KEYS: a counter each; ARGV and the reply: script.h.
local LEAST = 2 -- of a lease: one for less is not worth a call

local held = records()
local host = string.sub(ARGV[1], 1, 8)
local ends = now + struct.unpack('>I4', ARGV[1], 9) * 1000
local texts = redis.call('MGET', unpack(KEYS))
local reply = {}

-- Answers whether that lease had not ended yet.
local function report(counter, id, spent)
    local at = held.find(counter.records, id)
    if not at then
        return false
    end
    counter.state = counter.kind.settle(counter.limit, counter.state, now, {
        place = held.place_at(counter.records, at),
        amount = held.amount_at(counter.records, at),
        truth = spent,
    }) or counter.state
    counter.records = held.drop(counter.records, at)
    counter.is_changed = true
    return true
end

-- Answers the amount, 0 for none, its place, what of it is new, and how the counter stands
-- then where that was looked at.
local function grant(counter, id, want, room, divisor)
    local at = held.find(counter.records, id)
    if at then -- this call was carried out before
        return held.amount_at(counter.records, at), held.place_at(counter.records, at), 0
    elseif not held.has_room(counter.records) then
        return 0, 0, 0
    end
    local limit, kind = counter.limit, counter.kind
    local answer = kind.take(limit, counter.state, now, 0)
    local amount = min(want, room, floor(answer.remaining / divisor))
    if amount < LEAST then
        return 0, 0, 0, answer
    end
    answer = kind.take(limit, counter.state, now, amount)
    counter.state, counter.is_changed = answer.state, true
    local what = struct.pack('>I4I8', amount, answer.place)
    counter.records = held.add(counter.records, id, what, ends)
    return amount, answer.place, amount, answer
end

local at = 13
for i = 1, #KEYS do
    local limit, kind, _, order_at = read_limit(at)
    local want, cap, divisor, _, n_reports, next_at =
        struct.unpack('>I4I4I2I4B', ARGV[1], order_at)
    local id = host .. string.sub(ARGV[1], order_at + 10, order_at + 13)
    local counter = counter_open(KEYS[i], texts[i], limit, kind)
    local accepted = 0
    for j = 0, n_reports - 1 do
        local seq = string.sub(ARGV[1], next_at, next_at + 3)
        local spent = struct.unpack('>I4', ARGV[1], next_at + 4)
        if report(counter, host .. seq, spent) then
            accepted = accepted + 2 ^ j
        end
        next_at = next_at + 8
    end
    at = next_at
    local out = held.sum(counter.records)
    local amount, place, added, answer = 0, 0, 0, nil
    if want > 0 then
        amount, place, added, answer = grant(counter, id, want, cap - out, divisor)
    end
    answer = answer or kind.take(limit, counter.state, now, 0)
    answer.is_allowed = amount > 0 or want == 0
    counter_close(counter, answer)
    local n = 8 * (i - 1)
    reply[n + 1] = counter.flags
    reply[n + 2] = amount
    reply[n + 3] = place
    reply[n + 4] = answer.remaining
    reply[n + 5] = answer.reset_us
    reply[n + 6] = answer.window_end_us
    reply[n + 7] = out + added
    reply[n + 8] = accepted
end
return reply
