-- cause: lua_error:3
function lookup_policy(pkt_info, policy)
error('no')
return true
end
function lookup_frag_punish_policy(policy)
end
