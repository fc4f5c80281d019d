-- Tables of prefixes: the global `lpmlib`. `native.rs` does the work.
local native, library = ...
local ffi = require "ffi"

ffi.cdef [[
struct rutter_lpm;
struct rutter_lpm6;
struct rutter_parsed { uint32_t v4; struct in6_addr v6; int32_t len; };
]]
local cast, gc = ffi.cast, ffi.gc
local function bind(family, name, result, args)
  return cast(result .. "(*)(" .. args .. ")", native[family .. name])
end
local parse = bind("", "parse", "bool", "const char *, size_t, int32_t, struct rutter_parsed *")
local mask_text = bind("", "mask_text", "size_t", "const struct in6_addr *, uint32_t, char *, size_t")
local why = bind("", "why", "const char *", "void *")

local M = {}
local parsed = ffi.new "struct rutter_parsed"
local text = ffi.new "char[64]"

local function prefix(given, family)
  if type(given) ~= "string" or not parse(given, #given, family, parsed) then
    error(("%s is no IPv%d prefix"):format(tostring(given), family), 3)
  end
end

-- The address in network order, and the length.
function M.str_to_prefix(given)
  prefix(given, 4)
  return parsed.v4, parsed.len
end
function M.str_to_prefix6(given)
  prefix(given, 6)
  return ffi.new("struct in6_addr", parsed.v6), parsed.len
end

-- The functions of one family; `mark` is "" or "6" in their names.
local function family(number, mark, addr)
  local lpm = "struct rutter_lpm" .. mark .. " *"
  local make = bind(number, "make", lpm, "void *, uint32_t, uint32_t")
  local read = bind(number, "read", lpm, "void *, const char *, size_t, int64_t")
  local free = bind(number, "free", "void", lpm)
  local add = bind(number, "add", "int32_t", lpm .. "," .. addr .. ", uint32_t, uint32_t")
  local del = bind(number, "del", "int32_t", lpm .. "," .. addr .. ", uint32_t")
  local find = bind(number, "find", "int32_t", lpm .. "," .. addr)
  local find_slowly = bind(number, "find_slowly", "int32_t", lpm .. "," .. addr)
  local groups = bind(number, "groups", "int32_t", lpm .. "," .. addr .. ", uint32_t")
  local paras = bind(number, "paras", "double", lpm .. ", int32_t")
  local name = "lpm" .. mark

  M["new_" .. name] = function(max_rules, num_tbl8s)
    return gc(make(library, max_rules, num_tbl8s or 0), free)
  end
  M[name .. "_from_file"] = function(file, label)
    local table = read(library, file, #file, label or -1)
    if table == nil then error(ffi.string(why(library)), 2) end
    return gc(table, free)
  end
  M[name .. "_add"] = function(table, ip, depth, label) return add(table, ip, depth, label) end
  M[name .. "_del"] = function(table, ip, depth) return del(table, ip, depth) end
  M[name .. "_lookup"] = function(table, ip) return find(table, ip) end
  M[name .. "_debug_lookup"] = function(table, ip) return find_slowly(table, ip) end
  M[name .. "_add_tbl8s"] = function(table, ip, depth) return groups(table, ip, depth) end
  -- As it was made: rules at most, and tbl8s.
  M[name .. "_get_paras"] = function(table) return paras(table, 0), paras(table, 1) end
end
family("4", "", "uint32_t")
family("6", "6", "const struct in6_addr *")

local s32 = require("gatekeeper/policylib").gt_cpu_to_be_32
local masks = {}
for depth = 0, 32 do masks[depth] = s32((2 ^ depth - 1) * 2 ^ (32 - depth)) end
local function depth_of(depth, most)
  if type(depth) ~= "number" or depth % 1 ~= 0 or depth < 0 or depth > most then
    error(("%s is no length from 0 to %d"):format(tostring(depth), most), 3)
  end
end

-- The address without the bits behind `depth`, in network order.
function M.ip_mask_addr(ip, depth)
  depth_of(depth, 32)
  return bit.band(ip, masks[depth]) % 2 ^ 32
end
-- The same in words.
function M.ip6_mask_addr(ip, depth)
  depth_of(depth, 128)
  return ffi.string(text, mask_text(ip, depth, text, 64))
end

return M
