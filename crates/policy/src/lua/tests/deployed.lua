-- As one writes it for a deployed Grantor: what the libraries give is used as it is given there.
require "gatekeeper/stdcdefs"
local policylib = require "gatekeeper/policylib"
local ffi = require "ffi"
local c = policylib.c

local ipv4_t, ipv6_t = ffi.typeof "struct rte_ipv4_hdr *", ffi.typeof "struct rte_ipv6_hdr *"

-- A list is read twice: the table is made as large as it has to be.
local function tbl8s(path, to_prefix, add_tbl8s)
  local rules, needed, seen = 0, 0, {}
  for line in io.lines(path) do
    local ip, len = to_prefix(line)
    rules, needed = rules + 1, needed + add_tbl8s(ip, len, seen)
  end
  return rules, needed
end
local function fill(path, to_prefix, add, lpm)
  for line in io.lines(path) do
    local ip, len = to_prefix(line)
    add(lpm, ip, len, 7)
  end
  return lpm
end
local list4, list6 = "/etc/lists/none4.txt", "/etc/lists/none6.txt"
rules4, tbl8s4 = tbl8s(list4, lpmlib.str_to_prefix, lpmlib.lpm_add_tbl8s)
rules6, tbl8s6 = tbl8s(list6, lpmlib.str_to_prefix6, lpmlib.lpm6_add_tbl8s)
none4 = fill(list4, lpmlib.str_to_prefix, lpmlib.lpm_add, lpmlib.new_lpm(rules4, tbl8s4))
none6 = fill(list6, lpmlib.str_to_prefix6, lpmlib.lpm6_add, lpmlib.new_lpm6(rules6, tbl8s6))

local server = lpmlib.str_to_prefix "203.0.113.5/32"
local server6 = lpmlib.str_to_prefix6 "2001:db8::5/128"
local ports = policylib.tcpsrv_ports({ 443, 80 }, { 53 })
assert(ports.listening_port_count + ports.remote_port_count <= c.TCPSRV_MAX_NUM_PORTS)
assert(ports.ports.p[0] == 80 and ports.ports.p[1] == 443 and ports.ports.p[11] == 53)

local decide = {
  [policylib.BPF_INDEX_DECLINED] = function(p) return policylib.decision_declined(p, 60) end,
  [policylib.BPF_INDEX_TCPSRV] = function(p)
    local forward = policylib.decision_tcpsrv(p, 1000, 2, 3, 4, ports)
    -- The server listens at one port less for them.
    local params = ffi.cast("struct tcpsrv_params *", p.params.bpf.cookie)
    params.ports.p[params.listening_port_count - 1] = 0
    params.tx1_rate_kib_sec = params.tx1_rate_kib_sec * 2
    params.listening_port_count = params.listening_port_count - 1
    return forward
  end,
  [policylib.BPF_INDEX_GRANTED] = function(p) return policylib.decision_granted(p, 1, 2, 3, 4) end,
}

local function of_flow4(info, policy)
  local from, to = policy.flow.f.v4.src, policy.flow.f.v4.dst
  local header = ffi.cast(ipv4_t, info.inner_l3_hdr)
  if from ~= header.src_addr or to ~= header.dst_addr then error "another flow" end
  if lpmlib.lpm_lookup(none4, from) >= 0 then return policylib.BPF_INDEX_DECLINED end
  if lpmlib.ip_mask_addr(from, 24) == "198.51.100.0" then return policylib.BPF_INDEX_GRANTED end
  return to == server and policylib.BPF_INDEX_TCPSRV or policylib.BPF_INDEX_GRANTED
end

local function of_flow6(info, policy)
  local header = ffi.cast(ipv6_t, info.inner_l3_hdr)
  for i = 0, 15 do
    if header.src_addr[i] ~= policy.flow.f.v6.src[i] then error "another flow" end
  end
  local from = ffi.cast("struct in6_addr &", header.src_addr)
  local found = lpmlib.lpm6_lookup(none6, from)
  if found ~= lpmlib.lpm6_lookup(none6, header.src_addr) then error "another address" end
  if found >= 0 then return policylib.BPF_INDEX_DECLINED end
  if header.src_addr[0] == 0x26 and from.s6_addr[1] == 0 then return policylib.BPF_INDEX_GRANTED end
  local to = ffi.cast("struct in6_addr &", policy.flow.f.v6.dst)
  if policylib.ipv6_addrs_equal(to, server6) and policylib.ipv6_addrs_equal(header.dst_addr, server6) then
    return policylib.BPF_INDEX_TCPSRV
  end
  return policylib.BPF_INDEX_GRANTED
end

function lookup_policy(info, policy)
  local index = (info.inner_ip_ver == c.IPV4 and of_flow4 or of_flow6)(info, policy)
  return decide[index](policy)
end
