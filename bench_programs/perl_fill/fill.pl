# SPDX-License-Identifier: MIT
# fill.pl: fills the words of a dictionary into justified paragraphs, as gawk_fill/fill.awk does.
#
#     LC_ALL=C perl fill.pl PASSES /usr/share/dict/words
#     LC_ALL=C perl fill.pl PASSESxHELD /usr/share/dict/words
#
# The second holds the last HELD lines back before it prints them, as fill.awk does.
#
# The job of Zorn's perl (CU-CS-573-92). No module is used, so that miniperl can run it too.
use strict;
use warnings;

my ($load, $file) = @ARGV;
die "usage: fill.pl PASSES[xHELD] FILE\n"
    unless defined $file && $load =~ /^([1-9][0-9]*)(?:x([0-9]+))?$/;
my ($passes, $hold) = ($1, $2 // 0);
my @held;
my ($width, $words_per_paragraph) = (72, 60);
my @line;
my $used = 0;

# Prints a line, or keeps it and prints the oldest of more than $hold.
sub emit {
    my ($line) = @_;
    push @held, $line;
    print shift @held, "\n" while @held > $hold;
}

# Prints the words gathered; justified, or ragged at the end of a paragraph.
sub flush_line {
    my ($justified) = @_;
    my $gaps = @line - 1;
    my $missing = $justified ? $width - $used : 0;
    my $text = '';
    for my $i (1 .. $gaps) {
        my $pad = 1 + int($missing * $i / $gaps) - int($missing * ($i - 1) / $gaps);
        $text .= $line[$i - 1] . ' ' x $pad;
    }
    emit($text . $line[-1]) if @line;
    @line = ();
    $used = 0;
}

for my $pass (1 .. $passes) {
    open my $words, '<', $file or die "fill.pl: cannot read '$file': $!\n";
    my $number = 0;
    while (my $text = <$words>) {
        if ($number++ % $words_per_paragraph == 0) {
            flush_line(0);
            emit('');
        }
        for my $word (split ' ', $text) {
            my $gap = @line ? 1 : 0;
            if ($used + $gap + length $word > $width) {
                flush_line(1);
                $gap = 0;
            }
            $used += $gap + length $word;
            push @line, $word;
        }
    }
    close $words;
}
flush_line(0);
print shift @held, "\n" while @held;
