-- The twin of sliding_log.c. The text of a state: "l", what all events cost in 2 bytes, then
-- the events, oldest first, in 8 bytes each: the time in us x 2^11 + the cost.
local LETTER = 108
local COST_ENDS = 2 ^ 11
local LOW_ENDS = 2 ^ 21 -- what of the time is beside the cost
local USED_MAX = 2000

local function event(events, i)
    local high, low = struct.unpack('>I4I4', events, 8 * i - 7)
    local us = math.floor(low / COST_ENDS)
    return high * LOW_ENDS + us, low - us * COST_ENDS
end

local function pack(us, cost)
    local high = math.floor(us / LOW_ENDS)
    return struct.pack('>I4I4', high, (us - high * LOW_ENDS) * COST_ENDS + cost)
end

-- Events i to j.
local function slice(events, i, j)
    return string.sub(events, 8 * i - 7, 8 * j)
end

local function write(used, events)
    return struct.pack('>BI2', LETTER, used) .. events
end

-- Events whose newest lies too far ahead, those that lie ahead taken to be of now.
local function align(events)
    local aligned = {}
    for i = 1, #events / 8 do
        local us, cost = event(events, i)
        aligned[i] = pack(math.min(us, now), cost)
    end
    return table.concat(aligned)
end

local function read(counter)
    local text = counter[TEXT]
    if not text then
        return 0, ''
    end
    local letter, used
    local n = (#text - 3) / 8
    if #text % 8 == 3 then
        letter, used = struct.unpack('>BI2', text)
    end
    if letter ~= LETTER or used > USED_MAX or used < n or (n == 0 and used > 0) then
        counter[TEXT], counter[IS_GARBAGE] = false, true
        return 0, ''
    end
    local events = string.sub(text, 4)
    if n > 0 and event(events, n) - now > CLOCK_SLACK_US then
        events = align(events)
        counter[TEXT] = write(used, events)
    end
    return used, events
end

-- All events, the first of them that is not out, what it and those after it cost, and what
-- now is taken to be: the newest event, when that is later.
local function drop(counter)
    local used, events = read(counter)
    local n = #events / 8
    if n == 0 then
        return events, 1, 0, now
    end
    local newest_us = event(events, n)
    local at_us = math.max(now, newest_us)
    local out_us = at_us - counter[PER] * counter[TICK_US]
    if newest_us <= out_us then
        return events, n + 1, 0, at_us
    end
    local first = 1
    local us, cost = event(events, first)
    while us <= out_us do
        used = used - cost
        first = first + 1
        us, cost = event(events, first)
    end
    return events, first, math.max(used, n - first + 1), at_us
end

-- When the events from `first` on that have to go first have gone.
local function gone_us(counter, events, first, excess)
    local us, cost = event(events, first)
    while excess > cost and first < #events / 8 do
        excess = excess - cost
        first = first + 1
        us, cost = event(events, first)
    end
    return us + counter[PER] * counter[TICK_US]
end

local function take(counter, cost)
    local size, per_us = counter[SIZE], counter[PER] * counter[TICK_US]
    local events, first, used, at_us = drop(counter)
    local n = #events / 8
    local oldest_us, newest_us = at_us, at_us
    if first <= n then
        oldest_us, newest_us = event(events, first), event(events, n)
    end
    local is_allowed = cost == 0 or used + cost <= size
    local retry_us, text, place = 0, false, 0
    if not is_allowed then
        retry_us = cost > size and NEVER
            or gone_us(counter, events, first, used + cost - size) - now
    elseif cost > 0 then
        used = used + cost
        newest_us = at_us
        text, place = write(used, slice(events, first, n) .. pack(at_us, cost)), at_us
    end
    local remaining = math.max(size - used, 0)
    local reset_us = used > 0 and newest_us + per_us - now or 0
    local window_end_us = oldest_us + per_us - now
    return {is_allowed, text, remaining, reset_us, retry_us, window_end_us, 0, place}
end

-- The first event from `first` on that was charged at a moment or later.
local function search(events, first, us)
    local last = #events / 8 + 1
    while first < last do
        local middle = math.floor((first + last) / 2)
        if event(events, middle) < us then
            first = middle + 1
        else
            last = middle
        end
    end
    return first
end

local function settle(counter, correction)
    local events, first, used = drop(counter)
    local n = #events / 8
    local from = search(events, first, correction.place)
    local to, costs, held = from, {}, 0
    while to <= n do
        local us, cost = event(events, to)
        if us ~= correction.place then
            break
        end
        costs[#costs + 1] = cost
        held = held + cost
        to = to + 1
    end
    local room = math.max(2 * counter[SIZE] - used, 0)
    local change = correction.truth - correction.amount
    change = math.max(math.min(change, room, COUNT_MAX - held), -held)
    if held == 0 or change == 0 then
        return nil
    end
    local changed, rest = {}, change
    for i = 1, #costs do
        local cost = math.max(costs[i] + rest, 0)
        rest = rest - (cost - costs[i])
        changed[i] = cost > 0 and pack(correction.place, cost) or ''
    end
    return write(
        used + change,
        slice(events, first, from - 1) .. table.concat(changed) .. slice(events, to, n)
    )
end

return {read = read, take = take, settle = settle}
