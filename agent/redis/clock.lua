-- The server's clock in us, and for how long a key is kept beyond the time at which its
-- counter is as if untouched: clocks of servers differ, and a failover changes clocks.
local KEPT_MS = 1000

-- Scripts that ask for the time are replicated by what they write; Redis before 7 has to be
-- told so.
if redis.replicate_commands then
    redis.replicate_commands()
end

local function clock_now()
    local time = redis.call('TIME')
    return time[1] * 1e6 + time[2]
end
