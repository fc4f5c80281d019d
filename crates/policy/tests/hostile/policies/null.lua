-- cause: SIGSEGV
function lookup_policy(pkt_info, policy)
local x = require('ffi').cast('int *', 8)[0]
return true
end
function lookup_frag_punish_policy(policy)
end
