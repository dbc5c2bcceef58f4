-- An agent's heartbeat. KEYS[1]: names of agents, by when each was heard of; ARGV[1]: a sign
-- and a name, + of who lives, - of who ends, ? of who only asks. The reply: how many live.
-- Who was heard of in times to come was so by a clock that went back since.
local LIVES_US = 3e6
local SET_KEPT_MS = 864e5 -- where memory is short, keys go first that end soonest

local sign, name = string.sub(ARGV[1], 1, 1), string.sub(ARGV[1], 2)
if sign == '+' then
    redis.call('ZADD', KEYS[1], now, name)
elseif sign == '-' then
    redis.call('ZREM', KEYS[1], name)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - LIVES_US)
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + LIVES_US, '+inf')
redis.call('PEXPIRE', KEYS[1], SET_KEPT_MS)
return redis.call('ZCARD', KEYS[1])
