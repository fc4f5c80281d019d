-- cause: system call
function lookup_policy(pkt_info, policy)
local ffi = require('ffi') ffi.cdef('int fork(void);') ffi.C.fork()
return true
end
function lookup_frag_punish_policy(policy)
end
