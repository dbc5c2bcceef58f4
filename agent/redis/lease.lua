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
    local at = held.find(counter[RECORDS], id)
    if not at then
        return false
    end
    counter[TEXT] = counter[KIND].settle(counter, {
        place = held.place_at(counter[RECORDS], at),
        amount = held.amount_at(counter[RECORDS], at),
        truth = spent,
    }) or counter[TEXT]
    counter[RECORDS] = held.drop(counter[RECORDS], at)
    return true
end

-- Answers the amount, 0 for none, its place, what of it is new, and how the counter stands
-- then where that was looked at.
local function grant(counter, id, want, room, divisor)
    local at = held.find(counter[RECORDS], id)
    if at then -- this call was carried out before
        return held.amount_at(counter[RECORDS], at), held.place_at(counter[RECORDS], at), 0
    elseif not held.has_room(counter[RECORDS]) then
        return 0, 0, 0
    end
    local answer = counter[KIND].take(counter, 0)
    local amount = math.min(want, room, math.floor(answer[REMAINING] / divisor))
    if amount < LEAST then
        return 0, 0, 0, answer
    end
    answer = counter[KIND].take(counter, amount)
    counter[TEXT] = answer[CHARGED]
    local what = struct.pack('>I4I8', amount, answer[PLACE])
    counter[RECORDS] = held.add(counter[RECORDS], id, what, ends)
    return amount, answer[PLACE], amount, answer
end

local at = 13
for i = 1, #KEYS do
    local counter, _, order_at = counter_open(texts[i], at)
    local want, cap, divisor, _, n_reports, next_at =
        struct.unpack('>I4I4I2I4B', ARGV[1], order_at)
    counter[RECORDS] = counter[RECORDS] or ''
    local id = host .. string.sub(ARGV[1], order_at + 10, order_at + 13)
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
    local out = held.sum(counter[RECORDS])
    local amount, place, added, answer = 0, 0, 0, nil
    if want > 0 then
        amount, place, added, answer = grant(counter, id, want, cap - out, divisor)
    end
    answer = answer or counter[KIND].take(counter, 0)
    answer[IS_ALLOWED] = amount > 0 or want == 0
    local n = 8 * (i - 1)
    reply[n + 1] = counter_close(KEYS[i], texts[i], counter, answer)
    reply[n + 2] = amount
    reply[n + 3] = place
    reply[n + 4] = answer[REMAINING]
    reply[n + 5] = answer[RESET_US]
    reply[n + 6] = answer[WINDOW_END_US]
    reply[n + 7] = out + added
    reply[n + 8] = accepted
end
return reply
