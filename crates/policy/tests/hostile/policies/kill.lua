-- cause: system call
function lookup_policy(pkt_info, policy)
local ffi = require('ffi') ffi.cdef('int kill(int, int);') ffi.C.kill(1, 9)
return true
end
function lookup_frag_punish_policy(policy)
end
