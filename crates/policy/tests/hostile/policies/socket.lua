-- cause: system call
function lookup_policy(pkt_info, policy)
local ffi = require('ffi') ffi.cdef('int socket(int, int, int);') ffi.C.socket(2, 2, 0)
return true
end
function lookup_frag_punish_policy(policy)
end
