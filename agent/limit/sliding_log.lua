-- The twin of sliding_log.c. The text of a state: "l", what all events cost in 2 bytes, then
-- the events, oldest first, in 8 bytes each: the time in us x 2^11 + the cost.
local LETTER = 108
local COST_ENDS = 2 ^ 11
local LOW_ENDS = 2 ^ 21 -- what of the time is beside the cost
local USED_MAX = 2000
local empty = {used = 0, events = ''}

local function event(events, i)
    local high, low = struct.unpack('>I4I4', events, 8 * i - 7)
    local us = floor(low / COST_ENDS)
    return high * LOW_ENDS + us, low - us * COST_ENDS
end

local function pack(us, cost)
    local high = floor(us / LOW_ENDS)
    return struct.pack('>I4I4', high, (us - high * LOW_ENDS) * COST_ENDS + cost)
end

-- Events i to j.
local function slice(events, i, j)
    return string.sub(events, 8 * i - 7, 8 * j)
end

local function read(text)
    if #text % 8 ~= 3 then
        return nil
    end
    local letter, used = struct.unpack('>BI2', text)
    local n = (#text - 3) / 8
    if letter == LETTER and used <= USED_MAX and used >= n and (n > 0 or used == 0) then
        return {used = used, events = string.sub(text, 4)}
    end
end

local function write(state)
    return struct.pack('>BI2', LETTER, state.used) .. state.events
end

local function align(limit, state, now)
    local events, n = state.events, #state.events / 8
    if n == 0 or event(events, n) - now <= CLOCK_SLACK_US then
        return nil
    end
    local aligned = {}
    for i = 1, n do
        local us, cost = event(events, i)
        aligned[i] = pack(min(us, now), cost)
    end
    return {used = state.used, events = table.concat(aligned)}
end

-- The first event that is not out, what it and those after it cost, and what now is taken
-- to be: the newest event, when that is later.
local function drop(limit, state, now)
    local events, used, n = state.events, state.used, #state.events / 8
    if n == 0 then
        return 1, 0, now
    end
    local newest_us = event(events, n)
    local at_us = max(now, newest_us)
    local out_us = at_us - limit.per * limit.tick_us
    if newest_us <= out_us then
        return n + 1, 0, at_us
    end
    local first = 1
    local us, cost = event(events, first)
    while us <= out_us do
        used = used - cost
        first = first + 1
        us, cost = event(events, first)
    end
    return first, max(used, n - first + 1), at_us
end

-- When the events from `first` on that have to go first have gone.
local function gone_us(limit, events, first, excess)
    local us, cost = event(events, first)
    while excess > cost and first < #events / 8 do
        excess = excess - cost
        first = first + 1
        us, cost = event(events, first)
    end
    return us + limit.per * limit.tick_us
end

local function take(limit, state, now, cost)
    local events, n = state.events, #state.events / 8
    local per_us = limit.per * limit.tick_us
    local first, used, at_us = drop(limit, state, now)
    local oldest_us, newest_us = at_us, at_us
    if first <= n then
        oldest_us, newest_us = event(events, first), event(events, n)
    end
    local answer = {is_allowed = cost == 0 or used + cost <= limit.size, retry_us = 0, delay_us = 0}
    if not answer.is_allowed then
        answer.retry_us = cost > limit.size and NEVER
            or gone_us(limit, events, first, used + cost - limit.size) - now
    elseif cost > 0 then
        used = used + cost
        newest_us = at_us
        answer.state = {used = used, events = slice(events, first, n) .. pack(at_us, cost)}
        answer.place = at_us
    end
    answer.remaining = max(limit.size - used, 0)
    answer.reset_us = used > 0 and newest_us + per_us - now or 0
    answer.window_end_us = oldest_us + per_us - now
    return answer
end

-- The first event from `first` on that was charged at a moment or later.
local function search(events, first, us)
    local last = #events / 8 + 1
    while first < last do
        local middle = floor((first + last) / 2)
        if event(events, middle) < us then
            first = middle + 1
        else
            last = middle
        end
    end
    return first
end

local function settle(limit, state, now, correction)
    local events, n = state.events, #state.events / 8
    local first, used = drop(limit, state, now)
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
    local change = bound_change(held, correction.truth - correction.amount, 2 * limit.size - used)
    if held == 0 or change == 0 then
        return nil
    end
    local changed, rest = {}, change
    for i = 1, #costs do
        local cost = max(costs[i] + rest, 0)
        rest = rest - (cost - costs[i])
        changed[i] = cost > 0 and pack(correction.place, cost) or ''
    end
    return {
        used = used + change,
        events = slice(events, first, from - 1) .. table.concat(changed) .. slice(events, to, n),
    }
end

return {empty = empty, read = read, write = write, align = align, take = take, settle = settle}
