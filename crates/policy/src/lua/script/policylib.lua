-- What a policy decides with: `require "gatekeeper/policylib"`.
local place, worker = ...
local ffi, bit = require "ffi", require "bit"
local bswap, rshift, little = bit.bswap, bit.rshift, ffi.abi "le"

local M = {}

-- Constants and helpers under the names of C. A table: the binary exports no symbols.
local c = setmetatable({}, { __index = ffi.C })
M.c = c
for _, name in ipairs {
  "IPV4", "IPV6", "ICMP", "TCP", "UDP", "ICMPV6", "REQUEST", "GRANTED", "DECLINED", "BPF",
  "GK_REQUEST", "GK_GRANTED", "GK_DECLINED", "GK_BPF",
  "ICMP_ECHO_REQUEST_TYPE", "ICMP_ECHO_REQUEST_CODE",
  "ICMPV6_ECHO_REQUEST_TYPE", "ICMPV6_ECHO_REQUEST_CODE",
} do
  c[name] = tonumber(ffi.C[name])
end

-- The numbers of the programs.
local GRANTED, DECLINED, GRANTEDV2, WEB, TCPSRV = 0, 1, 2, 3, 4
M.BPF_INDEX_GRANTED, M.BPF_INDEX_DECLINED = GRANTED, DECLINED
M.BPF_INDEX_GRANTEDV2, M.BPF_INDEX_WEB, M.BPF_INDEX_TCPSRV = GRANTEDV2, WEB, TCPSRV

-- `bswap` gives a signed number; headers give unsigned ones.
local function swap16(x) return rshift(bswap(x), 16) end
local function swap32(x) return bswap(x) % 2 ^ 32 end
local function same16(x) return x % 2 ^ 16 end
local function same32(x) return x % 2 ^ 32 end
local s16, s32 = little and swap16 or same16, little and swap32 or same32
for name, f in pairs {
  gt_cpu_to_be_16 = s16, gt_be_to_cpu_16 = s16, gt_cpu_to_be_32 = s32, gt_be_to_cpu_32 = s32,
  gt_cpu_to_le_16 = little and same16 or swap16, gt_le_to_cpu_16 = little and same16 or swap16,
  gt_cpu_to_le_32 = little and same32 or swap32, gt_le_to_cpu_32 = little and same32 or swap32,
  gt_lcore_id = function() return worker end,
} do
  c[name], M[name] = f, f
end

local words_t = ffi.typeof "const uint32_t *"
function M.ipv6_addrs_equal(a, b)
  local x, y = ffi.cast(words_t, a), ffi.cast(words_t, b)
  return x[0] == y[0] and x[1] == y[1] and x[2] == y[2] and x[3] == y[3]
end
c.ipv6_addrs_equal = M.ipv6_addrs_equal

local granted_t = ffi.typeof "struct granted_params *"
local grantedv2_t = ffi.typeof "struct grantedv2_params *"
local tcpsrv_t = ffi.typeof "struct tcpsrv_params *"
local ports_t = ffi.typeof "struct tcpsrv_ports"
local most = c.TCPSRV_MAX_NUM_PORTS

local function program(policy, index, expire_sec, cookie_len)
  policy.state = 3
  local bpf = policy.params.bpf
  bpf.expire_sec = expire_sec
  bpf.program_index = index
  bpf.reserved = 0
  bpf.cookie_len = cookie_len
  return bpf.cookie
end

function M.decision_granted(policy, tx_rate_kib_sec, cap_expire_sec, next_renewal_ms, renewal_step_ms)
  local params = ffi.cast(granted_t, program(policy, GRANTED, cap_expire_sec, 12))
  params.tx_rate_kib_sec = tx_rate_kib_sec
  params.next_renewal_ms = next_renewal_ms
  params.renewal_step_ms = renewal_step_ms
  return true
end

function M.decision_declined(policy, expire_sec)
  program(policy, DECLINED, expire_sec, 0)
  return false
end

function M.decision_granted_nobpf(policy, tx_rate_kib_sec, cap_expire_sec, next_renewal_ms, renewal_step_ms)
  policy.state = 1
  local granted = policy.params.granted
  granted.tx_rate_kib_sec = tx_rate_kib_sec
  granted.cap_expire_sec = cap_expire_sec
  granted.next_renewal_ms = next_renewal_ms
  granted.renewal_step_ms = renewal_step_ms
  return true
end

function M.decision_declined_nobpf(policy, expire_sec)
  policy.state = 2
  policy.params.declined.expire_sec = expire_sec
  return false
end

function M.decision_grantedv2_will_full_params(program_index, policy, tx1_rate_kib_sec, tx2_rate_kib_sec,
    cap_expire_sec, next_renewal_ms, renewal_step_ms, direct_if_possible)
  local params = ffi.cast(grantedv2_t, program(policy, program_index, cap_expire_sec, 17))
  params.tx1_rate_kib_sec = tx1_rate_kib_sec
  params.tx2_rate_kib_sec = tx2_rate_kib_sec
  params.next_renewal_ms = next_renewal_ms
  params.renewal_step_ms = renewal_step_ms
  params.direct_if_possible = direct_if_possible
  return true
end
local full = M.decision_grantedv2_will_full_params

-- The second rate is 5 %.
function M.decision_grantedv2(policy, tx_rate_kib_sec, cap_expire_sec, next_renewal_ms, renewal_step_ms)
  return full(GRANTEDV2, policy, tx_rate_kib_sec, tx_rate_kib_sec * 0.05, cap_expire_sec, next_renewal_ms,
    renewal_step_ms, false)
end
function M.decision_web(policy, tx_rate_kib_sec, cap_expire_sec, next_renewal_ms, renewal_step_ms)
  return full(WEB, policy, tx_rate_kib_sec, tx_rate_kib_sec * 0.05, cap_expire_sec, next_renewal_ms,
    renewal_step_ms, false)
end

local function sorted(list, what)
  local ports, seen = {}, {}
  for _, port in ipairs(list or {}) do
    if type(port) ~= "number" or port % 1 ~= 0 or port < 0 or port > 65535 then
      error(what .. " port " .. tostring(port) .. " is no number from 0 to 65535", 3)
    end
    if not seen[port] then
      seen[port] = true
      ports[#ports + 1] = port
    end
  end
  table.sort(ports)
  return ports
end

-- Listening ports ascend from the first place, remote ones from the last place downwards.
function M.tcpsrv_ports(listening, remote)
  local l, r = sorted(listening, "listening"), sorted(remote, "remote")
  if #l + #r > most then
    error(("%d listening and %d remote ports are more than %d"):format(#l, #r, most), 2)
  end
  local ports = ports_t()
  for i, port in ipairs(l) do ports.p[i - 1] = port end
  for i, port in ipairs(r) do ports.p[most - i] = port end
  return { listening_port_count = #l, remote_port_count = #r, ports = ports }
end

function M.decision_tcpsrv(policy, tx_rate_kib_sec, cap_expire_sec, next_renewal_ms, renewal_step_ms, ports)
  if type(ports) ~= "table" or not ffi.istype(ports_t, ports.ports) then
    error("the last argument is what tcpsrv_ports gives", 2)
  end
  local params = ffi.cast(tcpsrv_t, program(policy, TCPSRV, cap_expire_sec, 36))
  params.tx1_rate_kib_sec = tx_rate_kib_sec
  params.next_renewal_ms = next_renewal_ms
  -- 24 bits: what they cannot say is the nearest that they can.
  local longest = 2 ^ 24 - 1
  params.step_and_counts = math.max(0, renewal_step_ms < longest and renewal_step_ms or longest)
    + ports.listening_port_count * 2 ^ 24 + ports.remote_port_count * 2 ^ 28
  ffi.copy(params.ports, ports.ports, 24)
  return true
end

-- What `lookup_policy_batch(n)` works on: packets[i], policies[i] and forward[i] for i
-- from 0 to n - 1. The pointers are made once: one made for each packet costs ten times
-- what a decision does.
local headers = ffi.cast("struct gt_packet_headers *", place.headers)
local policies = ffi.cast("struct ggu_policy *", place.policies)
M.packets, M.policies = {}, {}
for i = 0, place.batch - 1 do
  M.packets[i], M.policies[i] = headers + i, policies + i
end
M.forward = ffi.cast("bool *", place.forward)

return M
