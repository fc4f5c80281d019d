-- cause: for want of memory | not enough memory
function lookup_policy(pkt_info, policy)
local t = {} while true do t[#t + 1] = string.rep('x', 1e6) .. #t end
return true
end
function lookup_frag_punish_policy(policy)
end
