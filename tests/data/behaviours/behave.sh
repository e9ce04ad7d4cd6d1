# Does what the first word of its input says.
read -r word a b
case $word in
slow) while :; do :; done ;;
crashing) kill -SEGV $$ ;;
hungry) kept=x; while :; do kept=$kept$kept; done ;;
wrong) echo $((a - b)) ;;
*) echo $((a + b)) ;;
esac
