-- cause: system call
function lookup_policy(pkt_info, policy)
os.execute('true')
return true
end
function lookup_frag_punish_policy(policy)
end
