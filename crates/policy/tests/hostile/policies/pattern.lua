-- cause: no verdict
function lookup_policy(pkt_info, policy)
string.find(string.rep('a', 5000), string.rep('a*', 50) .. 'b')
return true
end
function lookup_frag_punish_policy(policy)
end
