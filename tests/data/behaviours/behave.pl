# Does what the first word of its input says.
use strict;
use warnings;

my ($word, $first, $second) = split ' ', <STDIN>;
if ($word eq 'slow') { 1 while 1 }
if ($word eq 'crashing') { die 'as asked for' }
if ($word eq 'hungry') { my @kept; push @kept, 'x' x (1 << 20) while 1 }
print $word eq 'wrong' ? $first - $second : $first + $second, "\n";
