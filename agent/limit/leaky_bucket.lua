-- The twin of leaky_bucket.c: a token bucket's level, read as a queue.
local bucket = algorithm(TOKEN_BUCKET)

-- Ticks in which a level above `room` falls to it.
local function ticks_to_fall(limit, level, room)
    return level > room and ceil((level - room) / limit.requests) or 0
end

-- What a limit of 0 says: nothing passes, nothing drains.
local function refuse_all(level, cost)
    return {
        is_allowed = cost == 0,
        remaining = 0,
        reset_us = level > 0 and NEVER or 0,
        retry_us = cost == 0 and 0 or NEVER,
        window_end_us = 0,
        delay_us = 0,
    }
end

local function take(limit, state, now, cost)
    local level, at = bucket.level_now(limit, state, now)
    if limit.requests == 0 then
        return refuse_all(level, cost)
    end
    local per, most = limit.per, limit.requests * limit.max_delay
    local since_tick_us = now - at * limit.tick_us
    local answer = {
        is_allowed = cost == 0 or level + (cost - 1) * per <= most,
        retry_us = 0,
        window_end_us = 0,
        delay_us = 0,
    }
    if not answer.is_allowed then
        answer.retry_us = cost > limit.size and NEVER
            or ticks_to_us(limit, ticks_to_fall(limit, level, most - (cost - 1) * per)) - since_tick_us
    elseif cost > 0 then
        answer.delay_us = ticks_to_us(limit, ticks_to_fall(limit, level, 0))
        level = level + cost * per
        answer.state = {level = level, at = at}
        answer.place = at
    end
    answer.remaining = level <= most and floor((most - level) / per) + 1 or 0
    answer.reset_us = level > 0
        and ticks_to_us(limit, ticks_to_fall(limit, level, 0)) - since_tick_us
        or 0
    return answer
end

return {
    empty = bucket.empty, read = bucket.read, write = bucket.write, align = bucket.align,
    take = take, settle = bucket.settle,
}
