-- Now in us by the server's clock, and for how long a key is kept beyond the time at which its
-- counter is as if untouched: clocks of servers differ, and a failover changes clocks.
local KEPT_MS = 1000

-- Scripts that ask for the time are replicated by what they write; Redis before 7 has to be
-- told so.
if redis.replicate_commands then
    redis.replicate_commands()
end

local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
