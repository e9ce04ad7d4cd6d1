"""Names of environment variables by which whoever sets them makes a loader, an interpreter or a tool run other code. Pure.

What `Policy.inherit` does not take from the host. The list joins what glibc drops for set-id programs
(sysdeps/generic/unsecvars.h), what sudo drops, and the start-up hooks of common run-times; a value that the caller writes
into env= is not asked.
"""

from __future__ import annotations

from typing import Final

# Every name that begins so.
_FAMILIES: Final = (
    *("LD_", "DYLD_", "_RLD", "GLIBC_", "MALLOC_", "GCONV_"),
    *("PYTHON", "PERL5", "PERLIO", "RUBY", "GEM_", "BUNDLE_", "NODE_", "npm_config_", "NPM_CONFIG_", "LUA_"),
    *("BASH_", "GIT_", "JULIA_", "CORECLR_", "COMPlus_", "DOTNET_", "CARGO_", "OPENSSL_", "GTK_", "QT_", "GST_", "GIO_"),
    *("VK_", "LIBGL_", "EGL_", "__EGL_", "__GLX_", "GBM_", "LIBVA_", "VDPAU_", "OCL_", "GAWK_", "GCC_", "SASL_", "KRB5", "P11_"),
)
_NAMES: Final = frozenset(
    (
        *("IFS", "ENV", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "SHELLOPTS", "BASHOPTS", "GLOBIGNORE", "CDPATH"),
        *("FPATH", "NULLCMD", "READNULLCMD", "ZDOTDIR", "TMPPREFIX"),
        *("LOCPATH", "NLSPATH", "PATH_LOCALE", "GETCONF_DIR", "TZDIR", "NIS_PATH", "HOSTALIASES", "LOCALDOMAIN"),
        *("RES_OPTIONS", "RESOLV_HOST_CONF", "TERMCAP", "TERMINFO", "TERMINFO_DIRS", "TERMPATH"),
        *("PERLLIB", "CLASSPATH", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "JAVA_OPTS"),
        *("MAVEN_OPTS", "GRADLE_OPTS", "SBT_OPTS", "PHPRC", "PHP_INI_SCAN_DIR", "R_PROFILE", "R_ENVIRON", "R_LIBS"),
        *("R_LIBS_USER", "TCLLIBPATH", "GUILE_LOAD_PATH", "EMACSLOADPATH", "VIMINIT", "EXINIT", "OCAMLRUNPARAM"),
        *("GOFLAGS", "RUSTFLAGS", "RUSTC_WRAPPER", "MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "ERL_LIBS", "ERL_FLAGS"),
        *("SSLKEYLOGFILE", "SSH_ASKPASS", "SUDO_ASKPASS", "LESSOPEN", "LESSCLOSE", "PAGER", "MANPAGER", "EDITOR"),
        *("VISUAL", "BROWSER", "TMP", "TEMP"),
        *("COMPILER_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "OBJC_INCLUDE_PATH", "LIBRARY_PATH", "LDEMULATION"),
        *(
            "AWKPATH",
            "AWKLIBPATH",
            "TAR_OPTIONS",
            "RSYNC_RSH",
            "CVS_RSH",
            "ZIPOPT",
            "UNZIP",
            "ZIPINFO",
            "GZIP",
            "XZ_DEFAULTS",
            "XZ_OPT",
        ),
        *("GREP_OPTIONS", "WGETRC", "CURL_HOME", "INPUTRC", "SCREENRC", "GNUPGHOME", "M4PATH", "BISON_PKGDATADIR", "MANOPT"),
    )
)


def is_injection(name: str) -> bool:
    """Whether a name is one of them, or a pattern with '*' at its end means nothing else."""
    return name in _NAMES or name.startswith(_FAMILIES) or (name.endswith("*") and name[:-1] in _NAMES)
