-- cause: SIGSEGV
function lookup_policy(pkt_info, policy)
require('ffi').cast('void (*)(void)', 8)()
return true
end
function lookup_frag_punish_policy(policy)
end
