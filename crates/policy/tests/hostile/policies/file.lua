-- cause: system call
function lookup_policy(pkt_info, policy)
io.open('/etc/passwd')
return true
end
function lookup_frag_punish_policy(policy)
end
