local policylib, ffi = require "gatekeeper/policylib", require "ffi"
local tcp_t, c = ffi.typeof "struct tcp_hdr *", policylib.c
function lookup_policy(info, policy)
  local tcp = info.l4_proto == c.TCP and not info.frag and info.upper_len >= 20
  local port = tcp and c.gt_be_to_cpu_16(ffi.cast(tcp_t, info.l4_hdr).dst_port)
  if port == 80 or port == 443 then -- 2,048 KiB a second for 600 s; it asks again after 540
    return policylib.decision_granted(policy, 2048, 600, 540000, 3000)
  end
  return policylib.decision_declined(policy, 10)
end
