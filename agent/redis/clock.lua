-- The server's clock in us, and for how long a key is kept beyond the time at which its
-- counter is as if untouched: clocks of servers differ, and a failover changes clocks.
local KEPT_MS = 1000

local function clock_now()
    local time = redis.call('TIME')
    return time[1] * 1e6 + time[2]
end
