-- The twin of leaky_bucket.c: a token bucket's level, read as a queue.
local bucket = algorithm(TOKEN_BUCKET)

-- In which a level above `room` falls to it.
local function us_to_fall(counter, level, room)
    local ticks = math.ceil(math.max(level - room, 0) / counter[REQUESTS])
    return math.min(ticks * counter[TICK_US], WAIT_US_MAX)
end

-- What a limit of 0 says: nothing passes, nothing drains.
local function refuse_all(level, cost)
    local is_allowed = cost == 0
    return {is_allowed, false, 0, level > 0 and NEVER or 0, is_allowed and 0 or NEVER, 0, 0, 0}
end

local function take(counter, cost)
    local level, at = bucket.read(counter)
    if counter[REQUESTS] == 0 then
        return refuse_all(level, cost)
    end
    local per, most = counter[PER], counter[REQUESTS] * (counter[MAX_DELAY] or 0)
    local since_tick_us = now - at * counter[TICK_US]
    local is_allowed = cost == 0 or level + (cost - 1) * per <= most
    local retry_us, delay_us, text, place = 0, 0, false, 0
    if not is_allowed then
        retry_us = cost > counter[SIZE] and NEVER
            or us_to_fall(counter, level, most - (cost - 1) * per) - since_tick_us
    elseif cost > 0 then
        delay_us = us_to_fall(counter, level, 0)
        level = level + cost * per
        text, place = struct.pack(bucket.format, bucket.letter, level, at), at
    end
    local remaining = level <= most and math.floor((most - level) / per) + 1 or 0
    local reset_us = level > 0 and us_to_fall(counter, level, 0) - since_tick_us or 0
    return {is_allowed, text, remaining, reset_us, retry_us, 0, delay_us, place}
end

return {read = bucket.read, take = take, settle = bucket.settle}
