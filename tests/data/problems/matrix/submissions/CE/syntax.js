// No program.
function (
