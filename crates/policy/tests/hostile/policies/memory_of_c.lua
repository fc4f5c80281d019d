-- cause: for want of memory | not enough memory
function lookup_policy(pkt_info, policy)
local t, ffi = {}, require('ffi') while true do t[#t + 1] = ffi.new('char[?]', 1e6) end
return true
end
function lookup_frag_punish_policy(policy)
end
