[ "$(wc -c)" -le 5 ] && exit 42
echo "more than one number"
exit 43
