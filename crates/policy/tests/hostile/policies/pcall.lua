-- cause: lua_pcall:3
function lookup_policy(pkt_info, policy)
while true do pcall(function() while true do end end) end
return true
end
function lookup_frag_punish_policy(policy)
end
