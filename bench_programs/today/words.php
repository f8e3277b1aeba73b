<?php
// SPDX-License-Identifier: MIT
// php's load: arrays, strings and objects that come and go. words.php PASSES FILE
class Entry
{
    public array $neighbours = [];

    public function __construct(public string $word, public string $key)
    {
    }
}

$total = 0;
for ($pass = 0; $pass < (int) $argv[1]; $pass++) {
    $groups = [];
    foreach (explode("\n", trim(file_get_contents($argv[2]))) as $word) {
        $letters = str_split(strtolower($word));
        sort($letters);
        $entry = new Entry($word, implode('', $letters));
        $entry->neighbours = array_slice($groups[$entry->key] ?? [], -3);
        $groups[$entry->key][] = $entry;
    }
    foreach ($groups as $group) {
        foreach ($group as $entry) {
            $total += strlen($entry->word) + count($entry->neighbours);
        }
    }
}
echo $total, "\n";
