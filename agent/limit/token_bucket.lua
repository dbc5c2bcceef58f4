-- The twin of token_bucket.c. The text of a state: "b", the level (used tokens x W) and
-- the tick at which it was right in 8 bytes each. A leaky bucket uses all of this but `take`.
local FORMAT, BYTES, LETTER = '>BI8I8', 17, 98

-- The level, and the tick of that.
local function read(counter)
    local text, tick = counter[TEXT], math.floor(now / counter[TICK_US])
    if not text then
        return 0, tick
    end
    local letter, level, at
    if #text == BYTES then
        letter, level, at = struct.unpack(FORMAT, text)
    end
    if letter ~= LETTER or level > COUNT_MAX * TICKS_MAX or at > NUMBER_MAX then
        counter[TEXT], counter[IS_GARBAGE] = false, true
        return 0, tick
    elseif at <= tick then
        return math.max(level - (tick - at) * counter[REQUESTS], 0), tick
    elseif at * counter[TICK_US] - now > CLOCK_SLACK_US then
        at = tick
        counter[TEXT] = struct.pack(FORMAT, LETTER, level, at)
    end
    return level, at
end

local function take(counter, cost)
    local per, tick_us = counter[PER], counter[TICK_US]
    local requests, size = counter[REQUESTS], counter[SIZE]
    local level, at = read(counter)
    local since_tick_us = now - at * tick_us
    local is_allowed = cost == 0 or level + cost * per <= size * per
    local reset_us, retry_us, text, place = 0, 0, false, 0
    if not is_allowed then
        local ticks = math.ceil((level - (size - cost) * per) / requests)
        retry_us = (cost > size or requests == 0) and NEVER
            or math.min(ticks * tick_us, WAIT_US_MAX) - since_tick_us
    elseif cost > 0 then
        level = level + cost * per
        text, place = struct.pack(FORMAT, LETTER, level, at), at
    end
    if level > 0 then
        reset_us = requests == 0 and NEVER
            or math.min(math.ceil(level / requests) * tick_us, WAIT_US_MAX) - since_tick_us
    end
    local remaining = math.max(math.floor((size * per - level) / per), 0)
    return {is_allowed, text, remaining, reset_us, retry_us, 0, 0, place}
end

local function settle(counter, correction)
    local per = counter[PER]
    local level, at = read(counter)
    local change = (correction.truth - correction.amount) * per
    if change < 0 then
        local drained = math.max(at - correction.place, 0) * counter[REQUESTS]
        local held = math.max(correction.amount * per - drained, 0)
        change = math.max(change, -math.min(held, level))
    else
        change = math.min(change, math.max(2 * counter[SIZE] - math.ceil(level / per), 0) * per)
    end
    return change ~= 0 and struct.pack(FORMAT, LETTER, level + change, at) or nil
end

return {format = FORMAT, letter = LETTER, read = read, take = take, settle = settle}
