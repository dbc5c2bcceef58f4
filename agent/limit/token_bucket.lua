-- The twin of token_bucket.c. The text of a state: "b", the level (used tokens x W) and
-- the tick at which it was right in 8 bytes each. A leaky bucket uses all of this but `take`.
local FORMAT, BYTES, LETTER = '>BI8I8', 17, 98
local empty = {level = 0, at = 0}

local function read(text)
    if #text ~= BYTES then
        return nil
    end
    local letter, level, at = struct.unpack(FORMAT, text)
    if letter == LETTER and level <= COUNT_MAX * TICKS_MAX and at <= NUMBER_MAX then
        return {level = level, at = at}
    end
end

local function write(state)
    return struct.pack(FORMAT, LETTER, state.level, state.at)
end

local function align(limit, state, now)
    if state.at * limit.tick_us - now > CLOCK_SLACK_US then
        return {level = state.level, at = floor(now / limit.tick_us)}
    end
end

-- What of a level is left after so many ticks. Elapsed is cut first: its product with
-- requests would not be exact after a long time.
local function drain(limit, level, elapsed)
    if limit.requests == 0 then
        return level
    end
    return elapsed >= ceil(level / limit.requests) and 0 or level - elapsed * limit.requests
end

-- The level now, and the tick of that.
local function level_now(limit, state, now)
    local at = max(floor(now / limit.tick_us), state.at)
    return drain(limit, state.level, at - state.at), at
end

local function take(limit, state, now, cost)
    local per = limit.per
    local level, at = level_now(limit, state, now)
    local answer = {
        is_allowed = cost == 0 or level + cost * per <= limit.size * per,
        retry_us = 0,
        window_end_us = 0,
        delay_us = 0,
    }
    if answer.is_allowed and cost > 0 then
        level = level + cost * per
        answer.state = {level = level, at = at}
        answer.place = at
    end
    answer.remaining = max(floor((limit.size * per - level) / per), 0)
    if limit.requests == 0 then
        answer.reset_us = level > 0 and NEVER or 0
        answer.retry_us = answer.is_allowed and 0 or NEVER
        return answer
    end
    local since_tick_us = now - at * limit.tick_us
    answer.reset_us = level > 0
        and ticks_to_us(limit, ceil(level / limit.requests)) - since_tick_us
        or 0
    if not answer.is_allowed then
        local excess = level - (limit.size - cost) * per
        answer.retry_us = cost > limit.size and NEVER
            or ticks_to_us(limit, ceil(excess / limit.requests)) - since_tick_us
    end
    return answer
end

local function settle(limit, state, now, correction)
    local per = limit.per
    local level, at = level_now(limit, state, now)
    local change = (correction.truth - correction.amount) * per
    if change < 0 then
        local undrained = drain(limit, correction.amount * per, max(at - correction.place, 0))
        change = max(change, -min(undrained, level))
    else
        change = min(change, max(2 * limit.size - ceil(level / per), 0) * per)
    end
    if change == 0 then
        return nil
    end
    return {level = level + change, at = at}
end

return {
    empty = empty, bytes = BYTES, read = read, write = write, align = align, take = take,
    settle = settle, level_now = level_now,
}
