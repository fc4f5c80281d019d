-- A web service: 203.0.113.0/24 and 2001:db8:113::/48 serve HTTP and HTTPS, and nothing else.
-- Try it: rutter grantor policy test examples/policies/web.lua examples/policies/web.pcap
local policylib = require "gatekeeper/policylib"
local ffi = require "ffi"
local c = policylib.c

-- Sources that no packet from the Internet has.
local bogons = lpmlib.new_lpm(1024, 256)
for _, text in ipairs {
  "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
  "192.168.0.0/16", "224.0.0.0/3",
} do
  local ip, len = lpmlib.str_to_prefix(text)
  lpmlib.lpm_add(bogons, ip, len, 0)
end
local bogons6 = lpmlib.new_lpm6(1024, 256)
for _, text in ipairs { "::/8", "fc00::/7", "fe80::/10", "ff00::/8" } do
  local ip, len = lpmlib.str_to_prefix6(text)
  lpmlib.lpm6_add(bogons6, ip, len, 0)
end

local ipv4_t = ffi.typeof "struct ipv4_hdr *"
local ipv6_t = ffi.typeof "struct ipv6_hdr *"
local tcp_t = ffi.typeof "struct tcp_hdr *"
local udp_t = ffi.typeof "struct udp_hdr *"
local icmp_t = ffi.typeof "struct icmp_hdr *"
local http, https = c.gt_cpu_to_be_16(80), c.gt_cpu_to_be_16(443)

local function bogon(info)
  if info.inner_ip_ver == c.IPV4 then
    local ip = ffi.cast(ipv4_t, info.inner_l3_hdr)
    return lpmlib.lpm_lookup(bogons, ip.src_addr) >= 0
  end
  local ip = ffi.cast(ipv6_t, info.inner_l3_hdr)
  return lpmlib.lpm6_lookup(bogons6, ip.src_addr) >= 0
end

function lookup_policy(info, policy)
  if bogon(info) then
    return policylib.decision_declined(policy, 600)
  end
  if info.frag then
    return policylib.decision_declined(policy, 60)
  end
  if info.l4_proto == c.TCP then
    if info.upper_len < 20 then
      return policylib.decision_declined(policy, 60)
    end
    local port = ffi.cast(tcp_t, info.l4_hdr).dst_port
    if port == http or port == https then
      -- The program `web` keeps looking: 5 % for what opens connections.
      return policylib.decision_web(policy, 2048, 600, 540000, 3000)
    end
    return policylib.decision_declined(policy, 300)
  end
  if info.l4_proto == c.UDP then
    if info.upper_len >= 8 and ffi.cast(udp_t, info.l4_hdr).dst_port == https then
      return policylib.decision_granted(policy, 2048, 600, 540000, 3000) -- QUIC
    end
    return policylib.decision_declined(policy, 300)
  end
  if info.l4_proto == c.ICMP or info.l4_proto == c.ICMPV6 then
    local kind = info.upper_len >= 8 and ffi.cast(icmp_t, info.l4_hdr).icmp_type
    if kind == c.ICMP_ECHO_REQUEST_TYPE or kind == c.ICMPV6_ECHO_REQUEST_TYPE then
      return policylib.decision_granted(policy, 16, 60, 50000, 3000)
    end
  end
  return policylib.decision_declined(policy, 300)
end

function lookup_frag_punish_policy(policy)
  return policylib.decision_declined(policy, 600)
end
