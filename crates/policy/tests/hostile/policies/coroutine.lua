-- cause: lua_coroutine:3
function lookup_policy(pkt_info, policy)
coroutine.wrap(function() while true do end end)()
return true
end
function lookup_frag_punish_policy(policy)
end
