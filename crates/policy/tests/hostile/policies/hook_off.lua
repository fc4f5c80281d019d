-- cause: lua_hook_off:3
function lookup_policy(pkt_info, policy)
if debug then debug.sethook() end while true do end
return true
end
function lookup_frag_punish_policy(policy)
end
