-- cause: lua_loop:3
function lookup_policy(pkt_info, policy)
while true do end
return true
end
function lookup_frag_punish_policy(policy)
end
