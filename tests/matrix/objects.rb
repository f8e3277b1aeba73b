# SPDX-License-Identifier: MIT
# Strings, hashes, big numbers and threads.
groups = Hash.new { |hash, key| hash[key] = [] }
60_000.times { |i| groups["k#{i * 7919 % 9973}"] << ("x" * (i % 50)) }
puts groups.size, groups.sort.map { |key, list| key + list.join.size.to_s }.join.sum
puts (1..400).inject(:*).to_s.size, (3**20_000).to_s.size
puts Marshal.load(Marshal.dump(groups.to_a)).size
threads = (1..8).map { |n| Thread.new { (1..3000).map { |i| "#{n}:#{i}" }.join.size } }
puts threads.map(&:value).inspect
10.times { fork { groups.each_value(&:clear); GC.start; exit!(0) } }
puts Process.waitall.all? { |_, status| status.success? }
