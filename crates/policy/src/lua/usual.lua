-- The shape of a usual policy: sources that cannot be, fragments and short headers, web,
-- echoes, all else.
local policylib = require "gatekeeper/policylib"
local ffi = require "ffi"
local c = policylib.c

local bogons = lpmlib.new_lpm(1024, 16)
for _, text in ipairs {
  "0.0.0.0/8", "10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.2.0/24",
  "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/3",
} do
  local ip, len = lpmlib.str_to_prefix(text)
  lpmlib.lpm_add(bogons, ip, len, 0)
end
local bogons6 = lpmlib.new_lpm6(1024, 1024)
for _, text in ipairs { "::/8", "fc00::/7", "fe80::/10", "2001:db8:bad::/48" } do
  local ip, len = lpmlib.str_to_prefix6(text)
  lpmlib.lpm6_add(bogons6, ip, len, 0)
end

local ipv4_t = ffi.typeof "struct ipv4_hdr *"
local ipv6_t = ffi.typeof "struct ipv6_hdr *"
local tcp_t = ffi.typeof "struct tcp_hdr *"
local udp_t = ffi.typeof "struct udp_hdr *"
local icmp_t = ffi.typeof "struct icmp_hdr *"
local web = c.gt_cpu_to_be_16(80)

local function fast(policy) return policylib.decision_granted(policy, 2048, 600, 540000, 3000) end
local function plain(policy) return policylib.decision_granted(policy, 1024, 300, 240000, 3000) end

function lookup_policy(pkt_info, policy)
  local ttl
  if pkt_info.inner_ip_ver == c.IPV4 then
    local ip = ffi.cast(ipv4_t, pkt_info.inner_l3_hdr)
    if lpmlib.lpm_lookup(bogons, ip.src_addr) >= 0 then
      return policylib.decision_declined(policy, 60)
    end
    ttl = ip.time_to_live
  else
    local ip = ffi.cast(ipv6_t, pkt_info.inner_l3_hdr)
    if lpmlib.lpm6_lookup(bogons6, ip.src_addr) >= 0 then
      return policylib.decision_declined(policy, 60)
    end
    ttl = ip.hop_limits
  end
  if pkt_info.frag then return policylib.decision_declined(policy, 10) end

  if pkt_info.l4_proto == c.TCP then
    if pkt_info.upper_len < ffi.sizeof "struct tcp_hdr" then
      return policylib.decision_declined(policy, 10)
    end
    if ffi.cast(tcp_t, pkt_info.l4_hdr).dst_port == web then return fast(policy) end
  elseif pkt_info.l4_proto == c.UDP then
    if pkt_info.upper_len < ffi.sizeof "struct udp_hdr" then
      return policylib.decision_declined(policy, 10)
    end
    if ffi.cast(udp_t, pkt_info.l4_hdr).dst_port == web then return fast(policy) end
  elseif pkt_info.l4_proto == c.ICMP then
    if pkt_info.upper_len < 8 then return policylib.decision_declined(policy, 10) end
    local icmp = ffi.cast(icmp_t, pkt_info.l4_hdr)
    if icmp.icmp_type == c.ICMP_ECHO_REQUEST_TYPE and ttl < 16 then
      return policylib.decision_declined(policy, 60)
    end
  end
  return plain(policy)
end

function lookup_frag_punish_policy(policy)
  policylib.decision_declined(policy, 120)
end
