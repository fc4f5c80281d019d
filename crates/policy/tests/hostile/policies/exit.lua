-- cause: it ended by itself (status 3)
function lookup_policy(pkt_info, policy)
os.exit(3)
return true
end
function lookup_frag_punish_policy(policy)
end
