-- cause: stack overflow | stopped
function lookup_policy(pkt_info, policy)
local function f() return 1 + f() end f()
return true
end
function lookup_frag_punish_policy(policy)
end
