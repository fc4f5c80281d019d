-- A DNS server: queries over UDP and TCP, more of them from known resolvers. Which networks
-- are known is a file, `resolvers`; without it all are strangers.
-- Try it: rutter grantor policy test examples/policies/dns.lua examples/policies/dns.pcap \
--   --file resolvers=examples/policies/resolvers.txt
local policylib = require "gatekeeper/policylib"
local ffi = require "ffi"
local c = policylib.c

local found, resolvers = pcall(lpmlib.lpm_from_file, "resolvers", 0)
if not found then resolvers = lpmlib.new_lpm(1, 0) end

local ipv4_t = ffi.typeof "struct ipv4_hdr *"
local udp_t = ffi.typeof "struct udp_hdr *"
local tcp_t = ffi.typeof "struct tcp_hdr *"
local byte_t = ffi.typeof "const uint8_t *"
local dns = c.gt_cpu_to_be_16(53)

-- A query: QR and the opcode are 0.
local function query(header)
  return ffi.cast(byte_t, header)[8 + 2] < 8
end

local function known(info)
  if info.inner_ip_ver ~= c.IPV4 then
    return false
  end
  return lpmlib.lpm_lookup(resolvers, ffi.cast(ipv4_t, info.inner_l3_hdr).src_addr) >= 0
end

function lookup_policy(info, policy)
  if info.frag then
    return policylib.decision_declined(policy, 60)
  end
  if info.l4_proto == c.UDP then
    if info.upper_len < 8 + 12 then
      return policylib.decision_declined(policy, 60)
    end
    local udp = ffi.cast(udp_t, info.l4_hdr)
    if udp.dst_port ~= dns then
      return policylib.decision_declined(policy, 300)
    end
    if not query(udp) then
      return policylib.decision_declined(policy, 600) -- an answer: somebody is reflecting
    end
    if known(info) then
      return policylib.decision_granted(policy, 4096, 600, 540000, 3000)
    end
    return policylib.decision_granted(policy, 64, 120, 90000, 3000)
  end
  if info.l4_proto == c.TCP and info.upper_len >= 20
      and ffi.cast(tcp_t, info.l4_hdr).dst_port == dns then
    return policylib.decision_grantedv2(policy, 256, 300, 240000, 3000)
  end
  return policylib.decision_declined(policy, 300)
end

function lookup_frag_punish_policy(policy)
  return policylib.decision_declined(policy, 300)
end
