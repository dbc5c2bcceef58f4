-- The twin of sliding_window.c. The text of a state: "s", prev and curr in 4
-- bytes each, the window in 8.
local FORMAT, BYTES, LETTER = '>BI4I4I8', 17, 115

-- The two counts in the window that `now` is in, that window, and the ticks into it.
local function read(counter)
    local text, per, tick_us = counter[TEXT], counter[PER], counter[TICK_US]
    local letter, prev, curr, window = not text and LETTER, 0, 0, 0
    if text and #text == BYTES then
        letter, prev, curr, window = struct.unpack(FORMAT, text)
    end
    if letter ~= LETTER or prev > COUNT_MAX or curr > COUNT_MAX or window > NUMBER_MAX then
        counter[TEXT], counter[IS_GARBAGE] = false, true
        prev, curr, window = 0, 0, 0
    elseif window * per * tick_us - now > CLOCK_SLACK_US then
        window = math.floor(now / (per * tick_us))
        counter[TEXT] = struct.pack(FORMAT, LETTER, prev, curr, window)
    end
    local ticks = math.floor(now / tick_us)
    local into = ticks - window * per
    if into < 0 then
        return prev, curr, window, 0
    elseif into < per then
        return prev, curr, window, into
    end
    local current = math.floor(ticks / per)
    return current == window + 1 and curr or 0, 0, current, ticks - current * per
end

local function take(counter, cost)
    local per, tick_us, size = counter[PER], counter[TICK_US], counter[SIZE]
    local prev, curr, window, into = read(counter)
    local used = prev * (per - into) + curr * per
    local window_end_us = (window + 1) * per * tick_us - now
    local is_allowed = cost == 0 or used + cost * per <= size * per
    local retry_us, text, place = 0, false, 0
    if not is_allowed then
        -- Until `weighed x (W - tick) <= room x W` holds of prev, or in the next window of curr.
        local weighed, room, start = prev, size - curr - cost, window * per
        if room < 0 then
            weighed, room, start = curr, size - cost, start + per
        end
        local tick = weighed <= room and 0 or per - math.floor(room * per / weighed)
        retry_us = cost > size and NEVER or (start + tick) * tick_us - now
    elseif cost > 0 then
        curr = curr + cost
        used = used + cost * per
        text, place = struct.pack(FORMAT, LETTER, prev, curr, window), window
    end
    local remaining = used < size * per and math.floor((size * per - used) / per) or 0
    local reset_us = curr > 0 and window_end_us + per * tick_us or prev > 0 and window_end_us or 0
    return {is_allowed, text, remaining, reset_us, retry_us, window_end_us, 0, place}
end

local function settle(counter, correction)
    local per = counter[PER]
    local prev, curr, window, into = read(counter)
    local used = prev * (per - into) + curr * per
    local place = correction.place or window
    local is_curr = place == window
    if not is_curr and place ~= window - 1 then
        return nil
    end
    local count, weight = prev, per - into
    if is_curr then
        count, weight = curr, per
    end
    -- rounded towards zero, as C does; no room is no room
    local room = math.floor(math.max(2 * counter[SIZE] * per - used, 0) / weight)
    local change = correction.truth - correction.amount
    change = math.max(math.min(change, room, COUNT_MAX - count), -count)
    if change == 0 then
        return nil
    elseif is_curr then
        return struct.pack(FORMAT, LETTER, prev, curr + change, window)
    end
    return struct.pack(FORMAT, LETTER, prev + change, curr, window)
end

return {format = FORMAT, letter = LETTER, read = read, take = take, settle = settle}
