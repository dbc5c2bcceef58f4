-- Holds a request back as long as the agent said, where HAProxy has no "http-request pause".
core.register_action("ratelimit_delay", { "http-req" }, function(txn)
    local delay_ms = tonumber(txn:get_var("txn.rl.delay_ms"))
    if delay_ms then core.msleep(delay_ms) end
end)
