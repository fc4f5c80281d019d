-- cause: system call
function lookup_policy(pkt_info, policy)
loadfile('/etc/passwd')
return true
end
function lookup_frag_punish_policy(policy)
end
